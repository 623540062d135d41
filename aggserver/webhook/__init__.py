"""Webhook: HTTP calls of conversion and admission webhooks. Knows nothing of what a review means, definitions or admission."""
