"""What another way of training would change: time, energy, emissions, cost and memory."""
