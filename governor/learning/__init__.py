"""The mathematics of every learned choice: small, closed, the same bits for the same input."""
