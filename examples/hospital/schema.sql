-- A hospital's tables, as far as they concern us. `name` and `phone` are in no mapping, so nobody ever reads them.
create table if not exists patient (
    patient_id integer primary key,
    name       text not null,
    phone      text,
    born       date not null,
    sex        text,
    zip        text
);
create table if not exists condition (
    number     serial primary key,
    patient_id integer not null references patient on delete cascade on update cascade,
    icd        text not null,
    since      date not null,
    until      date
);
