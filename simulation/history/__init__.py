"""What must hold: each acknowledged record comes once, or an error or a warning names its loss.

account.py   the account: what Kafka acknowledged, what the sink has, what was named as lost
"""
