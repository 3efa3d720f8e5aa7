"""Commits and recovery: loops on a store, and the thread that runs them.

- `messages`: requests and answers, as they stand in JSON
- `commands`: decisions and rewards, from the request to the answer
- `administration`: loops are made, changed and deleted
- `shards`: the shard of a loop that a command belongs to
- `storage`: loops to the store and back
- `loading`: reading shards in a thread of its own
- `removing`: what is left of deleted loops
- `erasing`: scopes that are to be forgotten
- `retention`: old events, which go into an archive or are dropped
- `tasks`: work in a thread of its own
- `chores`: these three together
- `keeping`: the shards that are served, and what happens if one fails
- `engine`: all loops of a store, commits and recovery
- `thread`: the thread in which the engine runs
- `futures`: its results for the event loop
- `tallies`: what shards have counted, for the processes that do not serve them
- `warmup`: compiling policies before anybody waits for them
- `reading`: a loop's state and models, for inspection
"""
