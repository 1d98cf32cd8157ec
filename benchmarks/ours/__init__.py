"""Our side where it is a part of a command rather than a whole one."""
