"""Our REST API, /api/v1. REST framework is loaded by the first request that needs it."""
