"""The methods that minimize a regularized risk; `linear_auto` chooses."""
