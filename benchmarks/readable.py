def page(results):
    return str(len(results["points"]))
