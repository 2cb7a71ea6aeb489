"""Builds, writes, reads and searches JSON for some seconds: an order book of a
shop, as text and as objects. Prints one line, so that the work cannot be skipped."""
import json
import random
import sys


def orders(count, dice):
    for number in range(count):
        yield {
            "number": number,
            "customer": f"customer {dice.randrange(count // 5 + 1)}",
            "remark": "please ring twice; " * dice.randrange(60),
            "lines": [
                {"article": f"A{dice.randrange(5000):05}", "pieces": dice.randrange(1, 9), "cents": dice.randrange(90000)}
                for _ in range(dice.randrange(1, 8))
            ],
        }


def by_customer(book):
    sums = {}
    for order in book:
        total = sum(line["pieces"] * line["cents"] for line in order["lines"])
        sums.setdefault(order["customer"], []).append(total)
    return sums


def main(rounds, count):
    dice = random.Random(7)
    best = 0
    for _ in range(rounds):
        text = json.dumps(list(orders(count, dice)))
        book = json.loads(text)
        sums = by_customer(book)
        best = max(best, max(map(sum, sums.values())))
        text = "\n".join(json.dumps(order, indent=1) for order in book)
    print(f"{rounds} rounds of {count} orders, best customer {best} cents, {len(text)} characters")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4, int(sys.argv[2]) if len(sys.argv) > 2 else 20000)
