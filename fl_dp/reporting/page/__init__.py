"""The report of a run for people: one HTML file, made from the files of the run's folder alone.

`read` turns the folder into facts; these become words, tables and figures, and `render` makes the page. Text
in a folder is untrusted: it is cleaned when it is read and escaped when it is written.
"""
