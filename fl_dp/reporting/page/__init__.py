"""The report of a run for people: one HTML file, made from the files of the run's folder alone.

From the folder to facts (`read`), from facts to words, tables and figures, from these to the page (`render`).
Whatever a folder holds is somebody else's text: it is cleaned when it is read and escaped when it is written.
"""
