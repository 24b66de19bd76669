"""The library that `import heddle` offers: fabrics, jobs, plans and questions about them, without a controller.

`heddle/__init__.py` lists the public names. Every function takes values and returns values; only those that name a file
read one.
"""
