"""The door for hooks of coding agents: small programs that run before and after what the agent does.

A hook must answer before anybody notices, and never be in the way. So ``client``, which the agent runs, loads nothing but
the interpreter's own modules. It asks a resident process, started on demand, and stays silent when that does not answer in
time. What must not be lost (a transcript to keep, an episode to record) it lays into a folder; the resident works it off.

    agent ──► client ──socket──► resident ──► Memory          questions: answered in time, or silence
                 └──► spool folder ──────────┘                errands: done once, also after a crash

``events`` says what each hook means; ``installing`` writes and takes back the agent's configuration.
"""
