"""The page: what each loop earned, what changed and when. The server draws it and sends what changes as events.

`facts` gathers what there is to show, `story` says what a change history means, `sections` and `timeline` draw it with
`svg` and the templates, `shell` puts whole pages together, and `handlers` serve them.
"""
