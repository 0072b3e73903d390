"""The procedure ``grow``, in its parts."""
