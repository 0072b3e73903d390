"""What ``evodevo.fit`` keeps while it works, so that the same call goes on after the process was killed."""
