"""FedAvg, FedProx, MR-MTL and a personal layer at several budgets, seed by seed: README.md is beside this."""

import argparse

import fl_dp

METHODS = {
    "FedAvg": {},
    "FedProx": {"local_algorithm": "fedprox:0.1"},
    "MR-MTL": {"local_algorithm": "mr-mtl:0.1"},
    "personal bias": {"personal": "*bias"},
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.0, 8.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", default="study")
    options = parser.parse_args()
    results = fl_dp.study(
        vary={"method": METHODS, "epsilon": options.epsilon},
        seeds=options.seeds,
        out=options.out,
        data="digits",
        partition="dirichlet:0.3",
        test=0.2,
        clients=20,
        fit_clients=5,
        rounds=options.rounds,
    )
    print(results)
    print(results.difference("FedProx", "FedAvg", y="local accuracy"))
    results.runs.to_csv(f"{options.out}/runs.csv", index=False)
    results.plot(y="local accuracy").savefig(f"{options.out}/accuracy.png")
