"""Several processes behind one port: who they are, who starts them, who hands what to whom."""
