"""Node scheduler: grants concrete ids on one node, and decides when runners and jobs there are ended."""
