"""The public conformance test: does a policy keep the contract?

Run it on a policy of your own before you trust it with traffic: ``check_policy(MyPolicy(dim=5))``.
"""

from driftbandit.conformance.checker import check_policy

__all__ = ["check_policy"]
