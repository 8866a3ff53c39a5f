"""Writes a small Llama with random weights, for engines that need some model to serve.

Run with the Python of the vLLM environment: `python tiny_llama.py DIRECTORY`.

What it says is nonsense, but how long it takes to say it is real. The tokenizer knows ASCII only,
so every token is text at once: with half characters the engine would hold a token back until the
next one, and its clock and ours would be timing different things.
"""

import string
import sys
import sysconfig
from pathlib import Path

import torch  # type: ignore[import-not-found]
from tokenizers import (  # type: ignore[import-not-found]
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    trainers,
)
from transformers import (  # type: ignore[import-not-found]
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

PAD, BEGIN, END, TURN = SPECIAL = ("<pad>", "<begin>", "<end>", "<turn>")
VOCABULARY = 4096
TRAINING_FILES = 80  # modules of the standard library: enough text for the vocabulary

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<turn>' + message.role + ':' + message.content + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<turn>assistant:' }}{% endif %}"
)


def training_text() -> list[str]:
    """Text that every machine with Python has, in an order that is always the same."""
    modules = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:TRAINING_FILES]
    return [module.read_bytes().decode("ascii", errors="ignore") for module in modules]


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE over printable ASCII; anything else in a prompt is dropped."""
    tokenizer = Tokenizer(models.BPE())
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.ByteLevel()
    printable = "".join(piece for piece, _ in splitter.pre_tokenize_str(string.printable))
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(set(printable)),
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_text(), trainer)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, bos_token=BEGIN, eos_token=END
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def build_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Four layers of width 256 in bfloat16, the same weights every time."""
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=640,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return LlamaForCausalLM(config).to(torch.bfloat16)


def main() -> None:
    directory = Path(sys.argv[1])
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    tokenizer.save_pretrained(directory)
    model.save_pretrained(directory)
    parameters = sum(weight.numel() for weight in model.parameters())
    print(f"{parameters / 1e6:.1f} million parameters, bfloat16, {len(tokenizer)} tokens")


if __name__ == "__main__":
    main()
