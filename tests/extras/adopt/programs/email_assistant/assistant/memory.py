def get_memory(store, namespace, default_content=None):
    """Get memory from the store or initialize with default if it does not exist."""
    found = store.get(namespace, "user_preferences")
    if found:
        return found.value["text"]
    store.put(namespace, "user_preferences", {"text": default_content})
    return default_content
