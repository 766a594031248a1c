"""huggingface_plain.py, private: epsilon 3 for each sentence."""

import random
import sys

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

import fl_dp

OF, BAD = ["nurse", "food", "room"], ["slow", "rude", "cold", "late"]
GOOD = ["kind", "good", "warm", "quick"]
WORDS = ["the", "was", "very", *OF, *BAD, *GOOD]
RECORDS, EPOCHS, BATCH = 2000, 4, 200


def sentences(tokenizer, number, seed):
    """Dicts of tokens and a label, as a tokenised data set has them."""
    chance, found = random.Random(seed), []
    for _ in range(number):
        label = chance.randrange(2)
        words = ["the", chance.choice(OF), "was", *["very"] * chance.randrange(4)]
        words.append(chance.choice(BAD if label else GOOD))
        found.append({**tokenizer(" ".join(words)), "labels": label})
    return found


def accuracy(evaluated):
    return {"accuracy": float((evaluated.predictions.argmax(-1) == evaluated.label_ids).mean())}


def setting(folder):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(special + WORDS)})
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        initializer_range=0.2,
    )
    arguments = TrainingArguments(
        output_dir=folder,
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH,
        learning_rate=1e-2,
        lr_scheduler_type="linear",
        max_grad_norm=0,
        bf16=True,
        use_cpu=not torch.cuda.is_available(),
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_strategy="epoch",
        report_to="none",
    )
    return Trainer(
        model=BertForSequenceClassification(config),
        args=arguments,
        train_dataset=sentences(tokenizer, RECORDS, seed=1),
        eval_dataset=sentences(tokenizer, 200, seed=2),  # public
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=accuracy,
    )


def losses_of(model, batch):
    logits = model(batch["input_ids"], batch["attention_mask"]).logits
    return torch.nn.functional.cross_entropy(logits, batch["labels"], reduction="none")


def main(folder, resume=False):
    trainer = setting(folder)
    engine = fl_dp.make_trainer_private(trainer, losses_of=losses_of, max_grad_norm=1.0, target_epsilon=3.0)
    trainer.train(resume_from_checkpoint=resume)
    print(trainer.evaluate()["eval_accuracy"], engine.get_privacy_spent())


if __name__ == "__main__":
    main(sys.argv[1], resume="resume" in sys.argv)
