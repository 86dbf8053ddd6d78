"""Where this sidecar may connect to, decided after names were resolved."""
