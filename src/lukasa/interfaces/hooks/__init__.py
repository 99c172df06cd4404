"""Hooks of coding agents: programs that the agent runs before and after its own actions.

An agent waits for its hooks, so they must answer fast and never fail. The agent runs ``client``, which imports only the
standard library. The client asks a daemon, which it starts on demand, and prints nothing if no answer comes in time.
Events whose data must not be lost, such as the end of a session, are first written to a queue folder.

    agent ──► client ──socket──► daemon ──► Memory            requests: answered in time, or not at all
                 └──► queue folder ─────────┘                 queued events: processed once, also after a crash

``handlers`` handles the events. ``config`` edits the configuration of coding agents.
"""
