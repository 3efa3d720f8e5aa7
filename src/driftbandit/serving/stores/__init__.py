"""Where the log lives: SQLite or PostgreSQL, behind one protocol.

- `base`: the protocol, and how stores fail
- `sql`: the statements that both databases share
- `sqlite`: a store in one file, for one process
- `backup`: copies of that file, and putting them back
- `postgresql`: a store that several processes share
- `leases`: which of those processes writes to which shard
- `retries`: pauses between attempts
- `rows`: the rows that a store takes and gives
- `access`: keys and sessions
- `runs`: runs of events, as rows of a table
- `inspection`: reading everything, to find what is damaged
- `removals`: rows about deleted loops and erased scopes
- `upkeep`: how much is in a store, and removing deleted loops and erased scopes
- `check`: the conformance test of stores
"""
