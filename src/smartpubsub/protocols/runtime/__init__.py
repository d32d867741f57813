"""Mechanisms that all protocols share: effects and timers, retransmission, failure detection."""
