"""Two made-up files of a bank and a shop: missing values, texts, -999 for no score, and Chinese names in GBK in one of them."""

import numpy as np
import pandas as pd

REGIONS, AGES = ("north", "south", "east"), ("青年", "中年", "老年")
CATEGORIES = ("region=" + ",".join(REGIONS), "年龄段=" + ",".join(AGES))


def tables(customers=5000, seed=11):
    """(bank, shop): data frames as people have them; one customer in fifty is in one of the files alone."""
    draw = np.random.default_rng(seed)
    ids = np.array([f"C{number:06d}" for number in draw.permutation(10 * customers)[:customers]])
    income, debt = draw.lognormal(9.0, 0.6, customers), draw.beta(2, 3, customers)
    months, spent = draw.gamma(2.0, 30.0, customers).round(), draw.lognormal(7.0, 0.8, customers)
    late, score = draw.poisson(0.7, customers), draw.normal(620, 60, customers).round()
    region, age = draw.integers(0, 3, customers), draw.integers(0, 3, customers)
    without_score, without_income = draw.random(customers) < 0.12, draw.random(customers) < 0.08
    risk = -2.6 - 0.8 * (np.log(income) - 9) + 2.2 * (debt - 0.4) - 0.006 * (months - 60) + 0.7 * late
    risk += -0.012 * (score - 620) * ~without_score + 0.7 * without_score + 0.5 * (region == 2) + 0.4 * (age == 0)
    label = (draw.random(customers) < 1 / (1 + np.exp(-risk))).astype(int)
    bank = pd.DataFrame(
        {
            "customer": ids,
            "default": label,
            "income": pd.Series(income.round(2).astype(str)).mask(without_income, ""),
            "debt_ratio": debt.round(4),
            "months": months,
            "region": np.array(REGIONS)[region],
        }
    )
    shop = pd.DataFrame(
        {
            "客户号": ids,
            "月消费": spent.round(1),
            "逾期次数": late,
            "信用分": np.where(without_score, -999, score),
            "年龄段": np.array(AGES)[age],
        }
    )
    return bank.iloc[customers // 100 :], shop.iloc[: -customers // 100].sample(frac=1, random_state=seed)


def write(folder, customers=5000):
    """The two files; returns their paths."""
    bank, shop = tables(customers)
    paths = folder / "bank.csv", folder / "shop.csv"
    bank.to_csv(paths[0], index=False)
    shop.to_csv(paths[1], index=False, encoding="gbk")
    return paths
