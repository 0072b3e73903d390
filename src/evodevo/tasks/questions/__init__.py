"""Questions whose answer a language model gives by the likelihood of each option: files, scores, accuracies."""
