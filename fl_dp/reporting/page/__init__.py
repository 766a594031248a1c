"""The report of a run for people: one HTML file, made from the files of the run's folder alone.

`read` turns the folder into `facts`; `tables`, `figures` and `render` make the page of them. Text in a folder
is untrusted: it is cleaned and escaped when it is written.
"""
