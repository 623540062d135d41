"""Webhook: HTTP calls of conversion and admission webhooks. Knows nothing of reviews, definitions or admission."""
