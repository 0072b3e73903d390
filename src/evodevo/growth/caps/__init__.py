"""Caps that fall during a training: which smaller networks fit, and which of them goes on."""
