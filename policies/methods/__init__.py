"""The six methods: what each trains, how it samples and how it scores."""
