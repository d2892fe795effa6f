"""The demo: the bot against a whole world on one laptop. It composes the sandbox's parts and starts an Application; nothing below imports it."""
