from driftbandit.policies.dlinucb import DLinUCB
from driftbandit.policies.linucb import LinUCB
from driftbandit.models import RewardModel
