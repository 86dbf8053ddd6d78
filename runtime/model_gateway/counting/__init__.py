"""How many tokens a call may take and took, where nobody says so exactly."""
