"""What a loop is and does, without input or output: commands come in, events go out.

- `config`: the settings of a loop, and the policies they describe
- `events`: the results of commands, of which the log is made
- `encoding`: features by name, for a loop with an encoder
- `arms`: the catalogue, and the pools that decisions choose from
- `randomness`: which arm is drawn, with which probability
- `windows`: open decisions, in the order in which their windows close, and how many a model has yet to learn
- `series`: what happened over time
- `scopes`: one model per scope, in memory or in the store
- `model`: a policy's file, with which models begin
- `state`: what a loop knows, its snapshots, and what the store does not have yet
- `learner`: the policies, asked and taught
- `erasing`: forgetting one scope
- `repeating`: how events of the log are repeated
- `loop`: the commands
"""
