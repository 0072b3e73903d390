"""Sounds from a folder: ten letters that rhyme, spoken by a synthesiser, judged on voices that were not learned from.

    python benchmarks/spoken_letters.py FOLDER           # makes FOLDER/train and FOLDER/test (wav, about 60 MB)
    evodevo fit FOLDER/train --label letter --test FOLDER/test --time-limit 3m --to model
    evodevo extend add SYSTEM letters --data FOLDER

Needs the program espeak-ng (Debian: espeak-ng). Each letter is spoken in five accents by twelve voices, three times
each at speeds and pitches drawn by chance (``--seed``), in white noise so many decibels below it (``--noise``, default
10); the voices of the test do not occur in training. A synthesiser is no recording: the voices of one accent share
their phonemes.
"""

from __future__ import annotations

import argparse
import io
import random
import subprocess
from pathlib import Path

import numpy as np
from scipy.io import wavfile

LETTERS = {"b": "bee", "c": "cee", "d": "dee", "e": "ee", "g": "gee", "p": "pee", "t": "tee", "v": "vee", "z": "zee"}
WORDS = {**LETTERS, "3": "three"}
ACCENTS = ("en-gb", "en-us", "en-gb-scotland", "en-gb-x-rp", "en-029")
VOICES = {"train": ("m1", "m2", "m3", "m5", "m6", "f1", "f2", "f3"), "test": ("m4", "m7", "f4", "f5")}
TIMES = 3


def main() -> None:
    """Make the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--noise", type=float, default=10.0, help="decibels of the speech above the noise")
    given = parser.parse_args()
    rng, noise, made = random.Random(given.seed), np.random.default_rng(given.seed), 0
    for split, voices in VOICES.items():
        for letter, word in WORDS.items():
            (given.folder / split / letter).mkdir(parents=True, exist_ok=True)
            for accent in ACCENTS:
                for voice in voices:
                    for time in range(TIMES):
                        speed, pitch = rng.randint(120, 220), rng.randint(20, 80)
                        speak = ["espeak-ng", "-v", f"{accent}+{voice}", "-s", str(speed), "-p", str(pitch), "--stdout"]
                        spoken = subprocess.run([*speak, word], check=True, capture_output=True).stdout
                        rate, sound = wavfile.read(io.BytesIO(spoken))
                        spread = float(sound.astype(np.float64).std()) * 10 ** (-given.noise / 20)
                        noisy = sound + noise.normal(0.0, spread, len(sound))
                        file = given.folder / split / letter / f"{accent}-{voice}-{time}.wav"
                        wavfile.write(file, rate, np.clip(np.rint(noisy), -(2**15), 2**15 - 1).astype(np.int16))
                        made += 1
    print(f"{made} files in {given.folder}")


if __name__ == "__main__":
    main()
