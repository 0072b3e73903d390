"""The protocol of STAR, section 5: tune, search, choose, tune again, train for long, test once, and one table."""
