"""Generated from noctaya/wire/proto by `make proto`. Not edited, not linted."""
