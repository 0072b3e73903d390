"""What training needs while a network grows: distillation, replay, surgery."""
