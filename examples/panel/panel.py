"""Prints a made-up panel as CSV: one row for each person and year, integer codes, missing values.

    python3 examples/panel/panel.py > panel.csv

Nobody in it exists. The same number of people and the same seed give the same rows.
"""

import random
import sys

PEOPLE, FIRST, LAST = 700, 2016, 2021
JOBS = (16, 14, 12, 11, 10, 9, 8, 7, 6, 4, 2, 1)  # how frequent the codes 1 to 12 are


def main() -> None:
    people = int(sys.argv[1]) if len(sys.argv) > 1 else PEOPLE
    draw = random.Random(20433)
    print("pid,year,born,sex,educ,region,hours,job")
    for number in range(1, people + 1):
        born = f"{draw.randint(1945, 1998)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"
        sex, educ, region = draw.randint(1, 2), draw.choice("1122233345"), draw.randint(1, 9)
        job = draw.choices(range(1, 13), JOBS)[0]
        first = FIRST if draw.random() < 0.7 else draw.randint(FIRST, LAST)
        for year in range(first, LAST + 1):
            if draw.random() < 0.08:
                if draw.random() < 0.5:
                    break  # gone for good
                continue  # not met in this year
            if draw.random() < 0.06:
                region = draw.randint(1, 9)
            if draw.random() < 0.1:
                job = draw.choices(range(1, 13), JOBS)[0]
            hours = "" if draw.random() < 0.05 else draw.choice((0, 15, 20, 30, 35, 38, 40, 40, 45, 50))
            educ_now = "NA" if draw.random() < 0.02 else educ
            print(f"{number},{year},{born},{sex},{educ_now},{region},{hours},{'' if draw.random() < 0.01 else job}")


if __name__ == "__main__":
    main()
