CREATE TABLE orders (id INTEGER, customer TEXT, total REAL);
