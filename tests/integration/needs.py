#!/usr/bin/env python3
"""needs.py PATH COMMAND... - runs the command if PATH exists, else skips and says what is not."""
import os
import sys

path, command = sys.argv[1], sys.argv[2:]
if not os.path.exists(path):
    print(f"1..0 # SKIP {os.path.basename(path)} is not installed (make test installs it)")
    sys.exit(0)
os.execvp(command[0], command)
