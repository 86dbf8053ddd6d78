"""Requests, answers and streams of OpenAI's chat and of Anthropic's messages, in the other's words.

What both can say is kept. What the other cannot be told, and would change the answer or the
price, is refused by the name of its field; hints that change neither are left out.
"""
