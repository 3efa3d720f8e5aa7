"""What a loop is and does, without input or output: commands come in, events go out.

- `config`: the settings of a loop, and the policies they describe
- `events`: what commands come to, and what the log is made of
- `arms`: the catalogue, and the pools that decisions choose from
- `randomness`: which arm is drawn, with which probability
- `windows`: open decisions, in the order in which their windows close
- `series`: what happened over time
- `scopes`: one model per scope, in memory or in the store
- `state`: what a loop knows, snapshots of it, and what the store does not have yet
- `learner`: the policies, asked and taught
- `loop`: the commands, and what an event of the log does again
"""
