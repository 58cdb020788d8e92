"""The one question before a run: was this done already?"""
