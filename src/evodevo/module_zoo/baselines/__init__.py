"""Networks that a zoo is compared with."""
