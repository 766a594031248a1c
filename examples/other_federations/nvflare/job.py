"""NVFlare's FedAvg over two simulated sites: python job.py CLIENT.py ROUNDS WORKSPACE"""

import sys

from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.recipe import SimEnv
from records import TabularMLP

if __name__ == "__main__":
    script, rounds, workspace = sys.argv[1:]
    recipe = FedAvgRecipe(
        name="tabular",
        min_clients=2,
        num_rounds=int(rounds),
        model=TabularMLP(),
        train_script=script,
    )
    run = recipe.execute(SimEnv(num_clients=2, workspace_root=workspace))
    print("Status:", run.get_status())
    print("Results:", run.get_result())
