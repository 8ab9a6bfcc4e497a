"""MST or AIM of dpmm on a table of codes; `bench_synthetic.py` runs this under an interpreter that has dpmm.

    python peer_dpmm.py mst table.csv synthetic.csv epsilon delta seed rounds

`rounds` is the number of steps of the inference, or "own" for the setting of dpmm (5,000 for MST, 1,000 for AIM). The model of
AIM has at most 80 MB, as in its class of dpmm (the pipeline around it would set no limit), or 4 MB with other rounds than its
own. It prints the seconds of one core of the fit and of the draw. The table has integer codes from 0; its first line has the
numbers of codes.
"""

import sys
import time

import numpy as np
import pandas as pd

if __name__ == "__main__":
    method, source, target, epsilon, delta, seed, rounds = sys.argv[1:]
    if method == "mst":
        from dpmm.pipelines import MSTPipeline as Pipeline
    else:
        from dpmm.pipelines import AIMPipeline as Pipeline
    table = pd.read_csv(source)
    domain = {f"c{place}": int(size) for place, size in enumerate(table.columns.str.split("_").str[0])}
    table.columns = list(domain)
    start = time.process_time()
    settings = {} if rounds == "own" else {"gen_kwargs": {"n_iters": int(rounds)}}
    settings |= {"max_model_size": 80 if rounds == "own" else 4} if method == "aim" else {}
    model = Pipeline(epsilon=float(epsilon), delta=float(delta), disable_processing=True, n_jobs=1, **settings)
    model.fit(table, domain=domain, random_state=np.random.RandomState(int(seed)))
    drawn = model.generate(n_records=len(table), random_state=np.random.RandomState(int(seed)))
    seconds = time.process_time() - start
    drawn[list(domain)].to_csv(target, index=False)
    print(seconds)
