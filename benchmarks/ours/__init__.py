"""Our side, where it is a part of a command and not a whole one."""
