"""The decision service.

The path of a request:

1. `server` starts uvicorn with the application for a store.
2. `api` finds the route, checks the key, reads the JSON and queues a command for the engine's thread.
3. `engine` takes all waiting commands and gives each to the shard of the loop that it belongs to.
4. `loop` checks the command, asks or teaches a policy, and returns an event.
5. `engine` hands the events of all these commands to the store, in one commit.
6. `stores` makes them durable, in SQLite or PostgreSQL.
7. Only then does `api` send the answers.

After a crash, the engine reads the last snapshot and repeats the events after it. `log` exports the events for
others, and `page` shows what happened. Imports go one way: loop < stores < engine < log < api < page < server < demo.
"""
