-- Vectors are ordered by one number, their place: the model's number less one in the highest bits, then 40 bits of the position,
-- then 12 bits of the chunk. So a vector is found through pages that hold hundreds of numbers each, where the pages above the
-- lowest level held ten vectors each, and new vectors are written at the end.
ALTER TABLE model ADD COLUMN first_place INTEGER AS ((number - 1) << 52);
ALTER TABLE vector RENAME TO old_vector;
CREATE TABLE vector (
    place INTEGER PRIMARY KEY, vector BLOB NOT NULL,
    model INTEGER AS ((place >> 52) + 1), seq INTEGER AS ((place >> 12) & 0xffffffffff), chunk INTEGER AS (place & 0xfff));
INSERT INTO vector (place, vector)
SELECT first_place + (seq << 12) + chunk, vector FROM old_vector JOIN model ON model.number = old_vector.model ORDER BY old_vector.model, seq, chunk;
DROP TABLE old_vector;

CREATE VIEW newest_vector AS
    SELECT model.name AS model, (
        SELECT seq FROM vector WHERE place BETWEEN first_place AND first_place + 0xfffffffffffff ORDER BY place DESC LIMIT 1) AS seq
    FROM model;
