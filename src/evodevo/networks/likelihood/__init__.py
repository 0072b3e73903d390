"""Log-likelihoods of texts under a language model: of options after a context, and of whole documents."""
