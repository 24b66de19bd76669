"""The controller's side of probing: attached agents, what each switch is asked for, and the search for ports."""
